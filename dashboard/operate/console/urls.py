"""The console's pages of the job; Views of topics; The mail catcher."""

from django.urls import include, path

from dashboard.operate.console import job, mails, partition_views, topic_views

console = [
    path("job/", job.job, name="job"),
    path("job/pipelines/<slug:name>/ask/", job.ask_pipeline, name="ask-pipeline"),
    path("job/<slug:query>/ask/", job.ask, name="ask"),
    path("job/<slug:query>/figures.json", job.figures, name="figures"),
    path("job/<slug:query>/samples.json", job.samples_of, name="samples"),
    path("partitions/", partition_views.partitions, name="partitions"),
]

topic_views = [
    path("views/", topic_views.view_list, name="views"),
    path("views/<slug:name>/", topic_views.view, name="view"),
]

mail_catcher = [
    path("console/mail/", mails.mail_list, name="mails"),
    path("console/mail/<int:number>/", mails.mail, name="mail"),
    path("console/mail/<int:number>/html/", mails.mail_html, name="html"),
]

urlpatterns = [
    path("", include((console, "console"))),
    path("", include((topic_views, "topic_views"))),
    path("", include((mail_catcher, "mail_catcher"))),
]
